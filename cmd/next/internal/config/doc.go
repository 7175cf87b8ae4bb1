// Package config reads the settings: flags, the file, defaults.
package config
