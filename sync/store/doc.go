// Package store manages the SQLite file that several packages share: it opens and migrates it,
// locks its folder, monitors disk space, and runs transactions. Of the tables it owns only meta.
//
// # One commit point
//
// Writes of several packages in one [Tx] are one transaction. They are durable when [Store.Update]
// returns. Free answers that arrive faster than 20 a second share a commit; an id or a cursor may
// be treated as durable only after [Store.Flush] has returned.
//
// # Groups survive a full disk
//
// SQLite rolls back a whole transaction when the disk is full. The store keeps the statements of
// the open group in memory until they are durable, and executes them again, in the same order and
// so with the same ids, once there is space. The same log is used for rollbacks: if one transaction
// of a group fails, the group is rolled back and executed again without it.
//
// To have space for the answer to a paid call, the store reserves some of the disk with a file, the
// ballast, which is removed when a commit finds no space.
package store
