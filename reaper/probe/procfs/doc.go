// Package procfs lists processes and reads the files that /proc has of each: proc(5).
//
// It misses no process that starts or ends during the listing, and reports whether an error means that a
// process has ended. Shares divides the time of a look among the owners of the processes, so that no owner
// can use more than a share, and Owner is the pod or user whose process it is: what goes unread of a
// process is a doubt about its own pod. A PID is used again, so a process is identified by its PID and its
// start time together. MountLine is one line of mountinfo. Other packages interpret the other files.
//
// It opens no file of a pod and follows no link of a process. The fields that it reads exist since Linux
// 3.10, NSpid since 4.1, the owner of a user namespace since 4.11, and the mounts of a namespace by its
// file since 6.13.
package procfs
