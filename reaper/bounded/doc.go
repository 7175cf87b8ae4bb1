// Package bounded runs work that may never end, and returns in bounded time.
//
// A read of a file system whose server is gone hangs in the kernel, and no signal ends it. So the node is read through a
// Guard: each piece of work has a goroutine of its own, which is abandoned after a time limit. The work must share nothing with its caller but its result.
//
// It also makes text from the node safe to print, and bounds its length. The package itself opens and reads nothing.
package bounded
