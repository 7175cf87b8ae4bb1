// Package person holds the rules of what a person asks for, quarantine restore and purge: which
// entries are meant, what is planned for them, and whether their pod lives again, which a purge
// must not pass over.
//
// The loop calls it for a person's command and carries out what it plans. policy, which decides
// what goes by itself, does not import it.
package person
