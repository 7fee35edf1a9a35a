package job

import "outlierd/outlier"

// Assistants has the settings of `outlierd mcp`, the server for assistants.
type Assistants struct {
	Token      Secret          `key:"token"`              // required of requests over HTTP
	PerDay     outlier.Credits `key:"budget.per_day"`     // what all assistants may spend on one day
	PerSession outlier.Credits `key:"budget.per_session"` // what one session may spend
}
