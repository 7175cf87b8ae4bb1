// Package config has every setting once: its flag, its key in the file, its default, and what
// values are good. Load puts the defaults, the file and the flags together into one Config,
// which also says where each value came from.
//
// It reads the configuration file and the flags, and nothing else of the node: what has to be
// found there is found by a function that the caller gives.
package config
