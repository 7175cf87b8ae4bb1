package human

import "strings"

// Nearest returns the word that s most likely stands for, or "" if none is near: at most two changes away, or
// with s as its beginning.
func Nearest(s string, words []string) string {
	best, found := 3, ""
	for _, w := range words {
		if d := distance(strings.ToLower(s), w); d < best && d < max(len(s), 1) {
			best, found = d, w
		}
	}
	if found == "" && len(s) >= 3 {
		for _, w := range words {
			if strings.HasPrefix(w, s) {
				return w
			}
		}
	}
	return found
}

// distance counts the insertions, deletions and replacements, and the swaps of two
// neighbours, between two words (optimal string alignment).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
