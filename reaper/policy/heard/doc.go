// Package heard says what the kubelet that runs has said in its log about orphans.
//
// A log line is a hint, never proof: anyone may write to syslog, and a pod can make the kubelet
// write. Claim.Evident says whether a line is the word of the kubelet that runs now. Known says
// whether it is about a pod that this node has. Heard keeps, within bounds, what such lines said.
// Tell and TellParked make facts of that, each one fact among many. Claims gathers lines between two
// looks, also within bounds: a tear-down error that it drops leaves FactTeardown unknown.
//
// One thing here takes a sign of life back that another room has read: discount makes the fact
// kubelet_file a no where every file that names the pod is of those that go stale and was written
// before the kubelet that runs named the pod as an orphan, or before it was parked. Under a kubelet
// that started since the parking it makes it Unknown. And a tear-down error is over once the kubelet
// has spoken of other things for long enough.
//
// No fact of this package lets a pod go by itself, and none counts longer than the kubelet runs that
// said it. policy judges and does not import this package. Like all of policy it makes no system
// call and reads no clock.
package heard
