// Package notify knows who is told what about runs and data, and how it gets there.
//
// # Sending
//
// [Sender.Send] sends one [Event] to one target of the job file: a webhook, a check of
// Healthchecks, a command or a mail server. Titles, channel names and error texts were written
// by others. They are data: control characters are removed, each format escapes what it would
// read as markup or as a mention, a command reads them from its standard input, and a body
// that looks like JSON has to be JSON whatever they hold. Addresses, headers and passwords
// are secrets; an error names no more than the host.
//
// # Once, and at least once
//
// What goes on, such as that a job fails, is told once until it is over: what is told follows
// from what happens and from what was told last (episode.go). The events of a run are put in
// the [Outbox] in the unit of work that records how the run stands, so a kill leaves both or
// neither. A [Deliverer] sends them from there, each target apart from the others. An event is
// sent twice only if the process is killed after its target has taken it and before that is on
// record; its id is then the same.
//
// # Alerts
//
// An alert is SQL whose new rows are told ([Alerts]). A row is known by the columns of its key.
// The first result of an alert is recorded and not told, as it would be told whole.
package notify
