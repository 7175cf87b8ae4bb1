// Package bounded runs work that may never end, and returns in bounded time.
//
// A read of a file system whose server is gone hangs in the kernel, and no signal ends it. So
// the node is read through a Guard: the work has a goroutine of its own, which
// is abandoned when its time is over, and the handles that it uses stay open until it ends.
// The work must share nothing with its caller but its result.
//
// It opens nothing and reads nothing by itself.
package bounded
