// Package config defines every setting once: its flag, its key in the file, its default, and its valid values.
// Load merges the defaults, the file and the flags into one Config, which also has the source of each value.
//
// It reads only the configuration file and the flags. The caller passes a function that discovers the kubelet's root directory.
package config
