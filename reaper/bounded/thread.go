package bounded

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// OnOwnThread runs f on an OS thread that ends with it: the goroutine never unlocks, so the
// runtime throws the thread away with whatever namespace or Landlock domain it is in. The process's first thread
// cannot end and stands for the process in /proc, so it is not used.
func OnOwnThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		done := make(chan struct{})
		OnOwnThread(func() {
			defer close(done)
			f()
		})
		<-done
		runtime.UnlockOSThread()
	}()
}
