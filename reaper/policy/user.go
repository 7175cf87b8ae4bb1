package policy

import (
	"strconv"
	"strings"
)

// User is who gave a command, as far as the node shows it. No rule uses it.
type User struct {
	// UID is the user who logged in. The kernel keeps it through su and sudo (pam_loginuid(8)). It is nil without a
	// login, as in a container.
	UID   *uint32 `json:"uid,omitempty"`
	Login string  `json:"login,omitempty"` // the name of UID, where the node has one
	// SudoUser is the variable SUDO_USER. The caller can set it to anything.
	SudoUser string `json:"sudo_user,omitempty"`
}

// noLogin is the kernel's number for no login.
const noLogin = 1<<32 - 1

// UserOf returns the User of /proc/self/loginuid, of a table as in passwd(5), and of SUDO_USER, nil if there is none.
func UserOf(loginUID, passwd, sudoUser string) *User {
	p := &User{SudoUser: userName(sudoUser)}
	if n, err := strconv.ParseUint(strings.TrimSpace(loginUID), 10, 32); err == nil && n != noLogin {
		uid := uint32(n)
		p.UID, p.Login = &uid, userName(loginOf(strconv.FormatUint(n, 10), passwd))
	}
	if p.UID == nil && p.SudoUser == "" {
		return nil
	}
	return p
}

// KnownUser is the user of what another command or the daemon began: no user if p is nil, and not the one who finishes it.
func KnownUser(p *User) *User {
	if p == nil {
		return new(User)
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

// mostUserName is the longest name that is kept, in bytes.
const mostUserName = 64

// userName returns a short, printable name of one word. What cannot be in the name of a user shows as "?".
func userName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '\uFFFD' || r == '/' || r == ' ' || !strconv.IsPrint(r) { // of spaces, ' ' alone is printable
			return '?'
		}
		return r
	}, s)
	if len(s) <= mostUserName {
		return s
	}
	return strings.ToValidUTF8(s[:mostUserName-len("…")], "") + "…"
}

// Name is the login name, or the number of a user without one, "" without a login.
func (p *User) Name() string {
	if p == nil || p.UID == nil {
		return ""
	}
	if p.Login != "" {
		return p.Login
	}
	return strconv.FormatUint(uint64(*p.UID), 10)
}

// String returns the user for display, and marks what only SUDO_USER has.
func (p *User) String() string {
	login := p.Name()
	switch {
	case p == nil || p.SudoUser == "" || p.SudoUser == login:
		return login
	case login == "":
		return p.SudoUser + " (SUDO_USER)"
	}
	return login + " (SUDO_USER " + p.SudoUser + ")"
}
