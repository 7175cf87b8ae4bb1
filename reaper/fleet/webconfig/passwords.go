package webconfig

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// The bounds on passwords. bcrypt is slow by design: 55 ms of one processor at its usual cost of 10. So one
// comparison runs at a time, and after one that failed none for three times as long: a flood of wrong passwords has a
// quarter of one processor, whatever the cost. Passwords that were right are known for as long as their hash stands in
// the file, and wait for nothing.
const (
	restFactor = 3
	mostWait   = 5 * time.Second // for a comparison to begin
	mostKnown  = 100
)

// answer is what is known of a password.
type answer int

const (
	wrong answer = iota
	right
	busy // too many are asking
)

// passwords compares passwords with their hashes. It is safe for concurrent use.
type passwords struct {
	compare func(hash, password []byte) error // bcrypt's, but in tests
	now     func() time.Time
	one     chan struct{} // full while a comparison runs or rests
	seed    maphash.Seed
	key     [sha256.Size]byte

	mu    sync.Mutex
	known map[[sha256.Size]byte]struct{} // of user, hash and password, by key
}

func newPasswords(now func() time.Time) *passwords {
	p := &passwords{
		compare: bcrypt.CompareHashAndPassword, now: now, one: make(chan struct{}, 1), seed: maphash.MakeSeed(),
		known: map[[sha256.Size]byte]struct{}{},
	}
	_, _ = rand.Read(p.key[:]) // it never fails (crypto/rand)
	return p
}

// check says whether a password is the user's. An unknown user's is compared with the hash of another, which is the same
// for the same name, so that the time that it takes tells nobody who is a user.
func (p *passwords) check(ctx context.Context, users map[string]string, user, password string) answer {
	hash, isUser := users[user]
	if !isUser {
		hashes := slices.Sorted(maps.Values(users))
		hash = hashes[maphash.String(p.seed, user)%uint64(len(hashes))]
	}
	sum := p.sum(user, hash, password)
	if isUser && p.knows(sum) {
		return right
	}
	wait := time.NewTimer(mostWait)
	defer wait.Stop()
	select {
	case p.one <- struct{}{}:
	case <-ctx.Done():
		return busy
	case <-wait.C:
		return busy
	}
	var rest time.Duration
	defer func() { time.AfterFunc(rest, func() { <-p.one }) }()
	if isUser && p.knows(sum) { // another request has compared it meanwhile
		return right
	}
	began := p.now()
	err := p.compare([]byte(hash), []byte(password))
	if !isUser || err != nil {
		rest = restFactor * p.now().Sub(began)
		return wrong
	}
	p.learn(sum)
	return right
}

// sum stands for a password in memory.
func (p *passwords) sum(parts ...string) (sum [sha256.Size]byte) {
	h := hmac.New(sha256.New, p.key[:])
	for _, part := range parts {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part)))) // it never fails
		_, _ = h.Write([]byte(part))
	}
	h.Sum(sum[:0])
	return sum
}

func (p *passwords) knows(sum [sha256.Size]byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.known[sum]
	return ok
}

// learn keeps what was right, and drops another where that is too much.
func (p *passwords) learn(sum [sha256.Size]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for old := range p.known {
		if len(p.known) < mostKnown {
			break
		}
		delete(p.known, old)
	}
	p.known[sum] = struct{}{}
}
