// Package advice has the words for each reason: what it means, what a person can do, and the commands
// for that, filled in for one pod; for each fact what it asks; and who takes what may go, if anybody does. It is pure; what it says is shown by the views.
package advice
