package policy

// Outlook says whether a pod that is kept for a reason is a matter for a person.
type Outlook uint8

// The outlooks. The zero value is that a person should look: so it is for a reason that
// nobody has thought about.
const (
	OutlookLook  Outlook = iota // a person should look
	OutlookAlive                // the pod lives: all is well, whatever else is said of it
	OutlookQuiet                // somebody wanted it so
	OutlookStuck                // something of it is left, and should not be: a person should look
)

var outlooks = map[Reason]Outlook{
	ReasonSandbox: OutlookAlive, ReasonContainer: OutlookAlive, ReasonCgroup: OutlookAlive,
	ReasonKubeletLists: OutlookAlive, ReasonAPILists: OutlookAlive, ReasonPodLogs: OutlookAlive, ReasonPodResources: OutlookAlive,
	ReasonRestored: OutlookQuiet, ReasonForeign: OutlookQuiet, ReasonObserve: OutlookQuiet, ReasonWaived: OutlookQuiet,
	ReasonSandboxOrphaned: OutlookStuck, ReasonTerminating: OutlookStuck, ReasonNotRunning: OutlookStuck,
}

// Outlook says what a pod that is kept for this reason asks of a person.
func (r Reason) Outlook() Outlook { return outlooks[r] }

// OutlookOf says what a verdict asks of a person: of a pod that waits or goes nothing, of
// a living one neither.
func OutlookOf(d Decision, why []Why) Outlook {
	if d != Keep {
		return OutlookQuiet
	}
	result := OutlookQuiet
	for _, w := range why {
		switch w.Reason.Outlook() {
		case OutlookStuck:
			return OutlookLook
		case OutlookAlive:
			result = OutlookAlive
		case OutlookLook:
			if result != OutlookAlive {
				result = OutlookLook
			}
		case OutlookQuiet:
		}
	}
	return result
}

// NeedsPerson says whether what is left stays until a person acts. What is ephemeral goes by
// itself, however much of it was counted; of what should have gone and was not seen to its end
// nobody knows why it stays.
func (r Residue) NeedsPerson() bool {
	return r.Class == ClassData || r.Partial && r.Class != ClassEphemeral
}
