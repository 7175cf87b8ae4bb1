// Package openfiles reports which process uses a file of a pod, by its open files, working directory,
// root, program and mappings, and which loop device does.
//
// A Reader reads the links and mappings of each process, and the loop devices. An Answer has the user that
// was found of each wanted pod.
//
// A path with a pod's UID in it is a hint. The Reader compares device and inode number of the file with
// those of the file with that name in the open directories of the pods and of the quarantine. A mapped file
// of their file system whose path names no pod is a stray: it is a pod's if the walk of the pod met its inode.
//
// It opens files of a pod only by O_PATH, and ends, signals and traces no process. It asks the file system
// behind a link only if the path names a pod, and then in bounded time, since a dead file system hangs. The
// caller provides the directories and what a walk met. Policy decides what counts as a use.
//
// It does not read io_urings, bound sockets, swap space, or files without a path or a name. A process that
// holds a file of a dead pod in such a way keeps the file: a removal removes only the name, as the kubelet's
// own does. So an incomplete walk causes no doubt, either: any process can cause one.
//
// Versions: proc(5) of Linux 3.10, kcmp(2) if the kernel has it.
package openfiles
