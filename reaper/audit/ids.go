package audit

import (
	"github.com/coreos/go-systemd/v22/journal"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// look is how records of one kind look in the journal.
type look struct {
	id       string // MESSAGE_ID: fixed for ever, random(4) once
	priority journal.Priority
}

// looks is the one table of message IDs. Scripts and alerts rely on them: an ID is never
// changed and never given to another kind.
var looks = map[policy.Kind]look{
	policy.KindKept:            {"601e98e0d10844e88c0cebcc4cfa852a", journal.PriInfo},
	policy.KindParking:         {"2b73170186e54758b4c92a3ebaccd4b0", journal.PriDebug},
	policy.KindParked:          {"770d890e15114caab7fc14a24a19f47f", journal.PriNotice},
	policy.KindNotParked:       {"f2e8fdcfa44a4d4e85897a89298e216d", journal.PriInfo},
	policy.KindClearing:        {"bf9d0dbc77084d379182f0670abb758d", journal.PriDebug},
	policy.KindCleared:         {"d474dce72fa34143898f2fdd57ad5ba9", journal.PriNotice},
	policy.KindNotCleared:      {"6d44f1df4e8644c7aca97fdbf0cac10e", journal.PriInfo},
	policy.KindPutting:         {"28eb60529b854d4b8c236c79e2360fa5", journal.PriDebug},
	policy.KindPutBack:         {"0e1d4734eda74789a8503625d5561bd6", journal.PriWarning},
	policy.KindStripping:       {"4321d21ee607460cae948a99e8aa91c9", journal.PriDebug},
	policy.KindStripped:        {"0a5ad9a2a09f4dafb4eb407793f6fb3e", journal.PriNotice},
	policy.KindRemoved:         {"4ea9a81c415a40cb96e0a1a629658fc7", journal.PriNotice},
	policy.KindPurging:         {"87718e5621ea48d583565c073873595f", journal.PriDebug},
	policy.KindRestoring:       {"e8dc765c80a14f6ea39afe9cf8de3bcf", journal.PriDebug},
	policy.KindRestored:        {"97baaf3502444123ad3d99811c20585f", journal.PriNotice},
	policy.KindRemovingSandbox: {"c2bb86f841cf4068949d77daff7921fe", journal.PriDebug},
	policy.KindRemovedSandbox:  {"d56b6525215043d99528cf3579ff59e2", journal.PriNotice},
	policy.KindKeptSandbox:     {"0da97e40c1b644a89000afc8dbbd1a34", journal.PriInfo},
	policy.KindConflict:        {"5adf1591b3aa4b2d9bf0286a8e19c65a", journal.PriWarning},
	policy.KindFailed:          {"d01b174376f7412fa17d708620025bd2", journal.PriErr},
	policy.KindBreaker:         {"c674b2a547d745ec98a20ddb52b25c8c", journal.PriCrit},
	policy.KindResumed:         {"5d521615b1fc48f98c222a7f9857f41d", journal.PriNotice},
	policy.KindSweeping:        {"6fc7115fb6204f41a68f67d60cb1e25e", journal.PriDebug},
	policy.KindSwept:           {"399afd57e3964f64bd6994d2cdd6040b", journal.PriNotice},
	policy.KindUnswept:         {"034afacab35b4acc8211dc329f9b6d31", journal.PriNotice},
	policy.KindStarted:         {"31ef80b5113940adaecfb7a43fd035cc", journal.PriInfo},
	policy.KindStopped:         {"55e9f916081a43809984fd3c31b35ee1", journal.PriInfo},
}

// lookOf returns how a record of kind k looks. A kind that the table lacks is shown all
// the same, without an ID.
func lookOf(k policy.Kind) look {
	if l, ok := looks[k]; ok {
		return l
	}
	return look{priority: journal.PriNotice}
}

// MessageID returns the MESSAGE_ID of records of kind k, 32 hex digits, or "" where k is
// no kind.
func MessageID(k policy.Kind) string { return looks[k].id }
