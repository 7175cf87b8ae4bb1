// Package who says which person gave a command, for the records of what it did.
//
// It opens nothing: its caller reads the kernel's word and the node's table of users. It decides
// nothing either. No rule asks who it was.
package who

import (
	"strconv"
	"strings"
)

// Person is who gave a command, as far as the node tells.
type Person struct {
	// UID is the user who logged in. The kernel keeps it through su and sudo (pam_loginuid(8)). It is
	// nil where nobody has logged in, as in a container.
	UID   *uint32 `json:"uid,omitempty"`
	Login string  `json:"login,omitempty"` // the name of UID, where the node has one
	// SudoUser is what the variable SUDO_USER says. The caller can set it to anything.
	SudoUser string `json:"sudo_user,omitempty"`
}

// nobody is how the kernel writes that nobody has logged in.
const nobody = 1<<32 - 1

// Of makes a Person of /proc/self/loginuid, of a table as passwd(5) has it, and of SUDO_USER. It is nil
// where none of them names anybody.
func Of(loginUID, passwd, sudoUser string) *Person {
	p := &Person{SudoUser: name(sudoUser)}
	if n, err := strconv.ParseUint(strings.TrimSpace(loginUID), 10, 32); err == nil && n != nobody {
		uid := uint32(n)
		p.UID, p.Login = &uid, name(loginOf(strconv.FormatUint(n, 10), passwd))
	}
	if p.UID == nil && p.SudoUser == "" {
		return nil
	}
	return p
}

// Known is who asked for what another command or the daemon began: nobody where p is nil, and so not whoever finishes it.
func Known(p *Person) *Person {
	if p == nil {
		return new(Person)
	}
	return p
}

// loginOf finds the first user of this ID, "" where there is none.
//
//	alice:x:1000:1000:Alice:/home/alice:/bin/sh
func loginOf(uid, passwd string) string {
	for line := range strings.Lines(passwd) {
		if f := strings.SplitN(line, ":", 4); len(f) == 4 && f[2] == uid {
			return f[0]
		}
	}
	return ""
}

// mostName is the longest name that is kept, in bytes.
const mostName = 64

// name keeps a name short, on its line and one word. What cannot be in the name of a user shows as "?",
// so that no other user's name comes of it.
func name(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '\uFFFD' || r == '/' || r == ' ' || !strconv.IsPrint(r) { // of spaces, ' ' alone is printable
			return '?'
		}
		return r
	}, s)
	if len(s) <= mostName {
		return s
	}
	return strings.ToValidUTF8(s[:mostName-len("…")], "") + "…"
}

// Name is the login name, or the number of a user who has none, "" where nobody has logged in.
func (p *Person) Name() string {
	if p == nil || p.UID == nil {
		return ""
	}
	if p.Login != "" {
		return p.Login
	}
	return strconv.FormatUint(uint64(*p.UID), 10)
}

// String names the operator for people, and says so where it is SUDO_USER's word alone.
func (p *Person) String() string {
	login := p.Name()
	switch {
	case p == nil || p.SudoUser == "" || p.SudoUser == login:
		return login
	case login == "":
		return p.SudoUser + " (SUDO_USER)"
	}
	return login + " (SUDO_USER " + p.SudoUser + ")"
}
