package engine

import (
	"outlierd/sync/forecast"
)

// forecasts returns a Reader like that of commands.
func forecasts(e *Engine) *forecast.Reader {
	return &forecast.Reader{Reader: e.Facts(), Pace: e.Pace, Key: e.Client.Key.Fingerprint()}
}

// queueOf returns the whole queue of a job.
func queueOf(e *Engine, name string) ([]forecast.Waiting, error) { return forecasts(e).Queue(name, 0) }
