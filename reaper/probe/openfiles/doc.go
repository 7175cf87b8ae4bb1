// Package openfiles reports who uses a file of a pod: a process, by its open files, working
// directory, root, program and mappings, or the kernel, by a loop device.
//
// A Reader reads the tables of each process and of the kernel. It does not ask the file system behind
// a link unless the link's path names a pod, and then in bounded time: a dead file system hangs. An Answer has, for the
// pods that were asked for, who was found.
//
// A path with a pod's UID in it is a hint. The file is compared by device and inode number with the
// one of that name in the open directories of the pods and of the quarantine. A mapped file of their file
// system whose path names no pod is a stray: it is a pod's if the walk of the pod met its inode.
//
// It opens no file of a pod but by O_PATH, and ends, signals and traces no process. What hangs with one
// process is left behind. The directories, and what a walk met, come from the caller. What counts as a use is for policy.
//
// Not read are io_urings, bound sockets, swap space, and files without a path or a name. A process that
// holds a file of a dead pod in such a way keeps the file itself: a removal removes only the name, as the
// kubelet's own does. So no doubt comes from a walk that was not complete, either: any process can make one.
//
// Versions: proc(5) of Linux 3.10, kcmp(2) where the kernel has it.
package openfiles
