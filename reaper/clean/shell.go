package clean

import "strings"

const plainInShell = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-:@,"

// Shell quotes one word of a printed command for a shell. Every command that is printed for an
// operator to paste quotes its names by it.
func Shell(word string) string {
	if word != "" && strings.Trim(word, plainInShell) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
