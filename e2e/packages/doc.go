// Package packages installs the built DEB and RPM on Debian releases that boot in containers, with their own systemd and
// journald, and a kubelet and a runtime that are played (standin). It shows what only that shows: the life of a package, the
// confinement of its unit, and a real journal. It knows the program by its commands, its JSON and its records only.
//
// make test-packages runs it.
package packages
