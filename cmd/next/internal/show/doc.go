// Package show prints a status for people.
package show
