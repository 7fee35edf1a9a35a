// Package notify decides which events the targets of the job file are notified of, and delivers them.
//
// # Sending
//
// [Sender.Send] sends one [Event] to one target of the job file: a webhook, a check of
// Healthchecks, a command or a mail server. Titles, channel names and error texts are untrusted.
// Control characters are removed from them, and each format escapes markup and mentions. A command
// reads them from its standard input. A template of a JSON body is refused if such a text could
// break the JSON. Addresses, headers and passwords are secrets: errors name only the host.
//
// # Once, and at least once
//
// A condition that lasts, such as a job that fails, is one event until it is over: the next event
// depends only on the last one and on the current state. The events of a run are written to the outbox in
// the transaction that records the run's status, so that a kill leaves both or neither. A [Deliverer] sends
// them from there, and no target delays another. An event is sent twice only if the process is killed after
// the target has accepted it and before that is recorded. Its id is then the same.
//
// # Alerts
//
// An alert is SQL whose new rows are events ([Questions]). Rows are identified by the columns of the
// alert's key. The rows of the first result are recorded and not sent.
package notify
