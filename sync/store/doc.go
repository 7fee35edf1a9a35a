// Package store manages the SQLite file that several packages share: it opens and migrates it,
// locks its folder, monitors disk space, and runs transactions. Of the tables it owns only meta.
//
// A transaction, which may write to tables of several packages, is durable when [Store.Update] returns.
// Those who read have connections of their own ([Store.View]), and wait for nothing.
package store
