//go:build generate

package main

const configTemplate = `# The settings of orphan-reaper. See orphan-reaper(5).
#
# Every setting is here with its default; mode is the only one that differs. Remove the # to
# change one. A flag of the same name wins over this file.
#
#   orphan-reaper config check         is this file good, and what is in force?
#   systemctl reload orphan-reaper     read it again
{{- range .Settings}}

{{manual . | hash}}
#
# {{template "about" .}}
{{if eq .Key "mode"}}mode: enforce{{else}}#{{.Key}}: {{.Default}}{{end}}
{{- end}}
{{define "about"}}Flag --{{.Flag}} {{.Type}}.{{if .List}} Several values are a list.{{end}} {{if .Reload}}A reload changes it.{{else}}Needs a restart.{{end}}{{end}}`

const settingsTemplate = `% ORPHAN-REAPER 5 {{.Date}} orphan-reaper

# NAME
orphan-reaper - the settings of orphan-reaper

# SYNOPSIS
/etc/orphan-reaper/config.yaml

# DESCRIPTION
The file is YAML: a key and a value in each line, as *hold: 5m*. Each setting is also a flag, with dashes in place of
underscores. Flags win over the file, and the file wins over the defaults. A key that is unknown or repeated and a value of
another kind are errors, with file and line. The file must belong to root, and no other user may be able to write to it.

**orphan-reaper config check** shows whether the settings are good, and prints each value and where it comes from.

Durations are written as 90s, 5m or 48h. A setting that has several values is a list, as *[A, B]*, or one value; its flag is
repeated. The word auto lets the program find the value, and none is no value.

SIGHUP (**systemctl reload orphan-reaper**) reads the file again. If it is wrong, nothing changes, and the journal has the error.

# SETTINGS
{{range .Settings}}
**{{.Key}}: {{.Type}}**
: {{manual . | text | indent}}

    Default: {{.Default}}. {{if .Reload}}A reload changes it.{{else}}Needs a restart.{{end}}{{if .List}} May have several values.{{end}}
{{end}}
# SEE ALSO
**orphan-reaper**(8)
`

const commandsTemplate = `% ORPHAN-REAPER 8 {{.Date}} orphan-reaper

# NAME
orphan-reaper - {{.Root.Short}}

# SYNOPSIS
**orphan-reaper** *COMMAND* [*FLAGS*] [*ARGUMENTS*]

# DESCRIPTION
{{.Root.Long}}

# COMMANDS
{{range .Commands}}
## {{.UseLine}}
{{or .Long .Short}}
{{range flags .}}
**{{if .Shorthand}}-{{.Shorthand}}, {{end}}--{{.Name}}**{{with value .}} *{{.}}*{{end}}
: {{usage .}}
{{end}}{{with .Example}}
` + "```" + `
{{.}}
` + "```" + `
{{end}}{{end}}
## orphan-reaper completion SHELL
Print the completion script for bash, fish, powershell or zsh.

## orphan-reaper help COMMAND
Print the help of a command.

# SETTINGS
Every command that reads a node has these flags. **orphan-reaper**(5) describes them.

**--config** *FILE*
: the file with the settings; without it /etc/orphan-reaper/config.yaml, if it exists
{{range .Settings}}
**--{{.Flag}}** *{{.Type}}*
: {{.Usage}} (default {{.Default}})
{{end}}
# EXIT STATUS
0
: done

1
: failed

2
: wrong usage or settings

3
: done, and an operator is needed

# FILES
/etc/orphan-reaper/config.yaml
: the settings

/var/lib/orphan-reaper
: the ledger, and archives of CNI files

# SEE ALSO
**orphan-reaper**(5), **journalctl**(1)
`

const referenceTemplate = `# Reference

This page is generated from the program: [settings](#settings), [reasons](#reasons), [metrics](#metrics),
[journal records](#journal-records), [JSON](#json).

## Settings

Flags have dashes, keys of ` + "`/etc/orphan-reaper/config.yaml`" + ` underscores. Flags win over the file, and the file wins over
the defaults. ` + "`orphan-reaper config check`" + ` prints the values in force.
{{range .Settings}}
### {{.Key}}

` + "`--{{.Flag}} {{.Type}}`" + `, default ` + "`{{.Default}}`" + `. {{if .Reload}}A reload changes it.{{else}}Needs a restart.{{end}}{{if .List}} May have several values: a list, or the flag repeated.{{end}}

{{manual . | text}}
{{end}}
## Reasons

A pod or an entry of the quarantine is kept, or waits, for these reasons. ` + "`orphan-reaper explain UID`" + ` prints those of one pod.
{{range .Reasons}}
### {{.Name}}

{{.Meaning}} {{.Do}}
{{with .Commands}}
` + "```" + `
{{range .}}{{upper .}}
{{end}}` + "```" + `
{{end}}{{end}}
## Metrics

All names begin with ` + "`orphan_reaper_`" + `. A series whose value is not known is absent.

| name | type | labels | meaning |
| --- | --- | --- | --- |
{{range .Metrics}}| {{.Name}} | {{kind .Type}} | {{.Labels}} | {{cell .Help}} {{cell .Meaning}} |
{{end}}
## Journal records

` + "`journalctl -t orphan-reaper -o verbose`" + ` shows them with their fields, and ` + "`journalctl -x`" + ` explains each.

| event | what has happened | what to do |
| --- | --- | --- |
{{range .Records}}| {{.Kind}} | {{cell .Subject}}. {{cell .Meaning}} | {{cell .Do}}{{with .Run}} ` + "`{{.}}`" + `{{end}} |
{{end}}
| field | meaning |
| --- | --- |
{{range .Fields}}| {{.Name}} | {{cell .Meaning}} |
{{end}}
## JSON

` + "`scan -o json`, `sweep -o json`, `doctor -o json`" + ` print a Status; ` + "`GET /report`" + ` has one. A field that is marked "optional" is absent
if it is empty. The meanings are the comments of the Go types, whose fields have the same names without underscores.
{{range .Status}}
### {{.Name}}

{{text .Doc}}

| field | type | meaning |
| --- | --- | --- |
{{range .Fields}}| {{.Name}} | {{.Type}}{{if .Optional}}, optional{{end}} | {{text .Doc | cell}} |
{{end}}{{end}}`
