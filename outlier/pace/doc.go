// Package pace decides when the next request may leave.
package pace
