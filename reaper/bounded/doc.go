// Package bounded runs work that may never end, and returns in bounded time.
//
// A read of a file system whose server is gone hangs in the kernel, beyond any signal. So
// whoever reads the node does it through a Guard: the work has a goroutine of its own, which
// is left behind when its time is over, and what it uses stays open until it ends.
// The work must share nothing with its caller but what it returns.
//
// It opens nothing and reads nothing by itself.
package bounded
