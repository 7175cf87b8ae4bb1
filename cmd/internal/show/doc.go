// Package show prints the model of the core for an operator at a terminal of 80 columns: what is this, is it safe, what do
// I do now. Each command has one function.
//
// It decides nothing. Verdicts, reasons and advice come from reaper/judge and the status: a rule in here is a bug. It prints
// what was read, and says what was not. Text from the node may be hostile: safe is the only way for it onto a screen.
package show
