package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy/account"
)

// daysName is the value that holds what the dropped records of the ledger told, summed up by day.
const daysName = "days"

// Days sums up by day what all records told, those that were dropped too. The ledger's own count as
// often as it is read: once, since the table says which it has.
func (s *Store) Days() (account.Table, error) {
	var table account.Table
	if _, err := s.Load(daysName, &table); err != nil {
		return table, err
	}
	return table, s.fold(&table)
}

func (s *Store) fold(table *account.Table) error {
	l := &s.ledger
	if l.file == nil {
		return nil
	}
	for line, err := range lines(l.file, 0, l.size) {
		if err != nil {
			return fmt.Errorf("cannot read %s: %w", s.ledgerPath(), err)
		}
		r, err := decode(line)
		if err != nil {
			return fmt.Errorf("cannot read %s: %w", s.ledgerPath(), err)
		}
		table.Add(r)
	}
	return nil
}

// saveDays keeps what all records tell, before some of them are dropped. Killed after that, the ledger
// still has them, and they count once. A table that cannot be read begins anew: it then says from when on
// it is whole. The caller holds the append lock.
func (s *Store) saveDays() error {
	var table account.Table
	b, err := s.root.ReadFile(daysName + ".json")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot read what was done by day: %w", err)
	}
	var e envelope
	if err == nil && json.Unmarshal(b, &e) == nil && e.Version > valueVersion {
		return fmt.Errorf("cannot use %s.json: version %d: %w", daysName, e.Version, ErrNewer)
	}
	if err != nil || json.Unmarshal(e.Value, &table) != nil {
		table = account.Table{}
	}
	if err := s.fold(&table); err != nil {
		return err
	}
	if b, err = wrapped(table); err != nil {
		return err
	}
	return s.writeFile(daysName+".json", b)
}

// New reports whether nobody has kept anything in the directory yet, or there is none.
func (s *Store) New() bool {
	if s.root == nil {
		return true
	}
	_, err := s.root.Lstat(versionFile)
	return errors.Is(err, fs.ErrNotExist)
}
