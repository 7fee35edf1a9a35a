// Package store keeps one SQLite file for several packages that own its tables: it opens
// and migrates it, locks its folder, watches the disk, and performs units of work. It
// knows no table but its own, meta.
//
// # One commit point
//
// Whatever several packages write in one [Tx] is one transaction. A unit of work is
// durable when [Store.Update] returns. Free answers that come faster than 20 a second
// share a commit; nothing may call an id or a cursor durable before [Store.Flush] has
// returned.
//
// # Groups survive a full disk
//
// SQLite throws a whole transaction away when its disk is full. The store keeps
// the statements of the open group in memory until they are durable, and performs
// them again, in the same order and so with the same ids, once there is room. The
// same record serves to undo: a unit of work that fails is rolled back together
// with its group, and the group without it is performed again.
//
// So that the answer to a call that was already paid for finds room, a file, the
// ballast, takes some of the disk in advance, and is removed when a commit finds none.
package store
