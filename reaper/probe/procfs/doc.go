// Package procfs lists processes and reads what /proc has of each: proc(5).
//
// It answers three questions for all who read processes: which there are, so that none that
// starts or ends meanwhile is missed; whether an error means that one has ended; and whose a process
// is, so that no owner takes more than a share of a look (Shares) and what goes unread is a doubt about
// its own pod. A process is known by its PID and its start together, since a PID is used again. What the
// files of a process mean is for the packages that read them.
//
// It opens no file of a pod and follows no link of a process. Fields that are read have been
// there since Linux 3.10; NSpid came with 4.1, the owner of a user namespace with 4.11, and the list of
// the mounts of a namespace by its file with 6.13.
package procfs
