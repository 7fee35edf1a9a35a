package warehouse

import "time"

// RoomFor exports roomFor for the tests.
func RoomFor(memory, file int64) (first, most int64) {
	r := roomFor(memory, file, 0)
	return r.now, r.most
}

// Options returns what the warehouse was made with.
func (w *Warehouse) Options() Options { return w.options }

// SetClock sets the clock of the vacuum.
func (w *Warehouse) SetClock(now func() time.Time) { w.now = now }

// SetMachine sets the memory of the machine.
func (w *Warehouse) SetMachine(bytes int64) { w.machine = func() int64 { return bytes } }

// SetMemory sets the memory of DuckDB's next start, and its maximum.
func (w *Warehouse) SetMemory(now, most int64) { w.room = room{now, most} }

// Memory returns the memory that DuckDB has.
func (w *Warehouse) Memory() int64 { return w.room.now }

// VacuumEvery exports vacuumEvery.
const VacuumEvery = vacuumEvery
