package bounded

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// OnOwnThread runs f on an OS thread that ends with f: the goroutine never unlocks the thread, so the runtime ends it, with
// its namespaces and its Landlock domain. It does not use the process's first thread, which cannot end and which stands for
// the process in /proc.
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
