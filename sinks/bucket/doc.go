// Package bucket copies a folder of Parquet files to a bucket of an S3-compatible store, or to a
// container of Azure Blob Storage, which is called a bucket here as well.
//
//	<table>/part-<lo>-<sum>.parquet                    a file of the folder; <sum> begins the SHA-256 of its content
//	<table>/date=YYYY-MM-DD/part-<lo>-<sum>.parquet    the same of a table with a folder for each day
//	_manifest/latest.json                              the objects of each table at the last publication
//
// Objects cannot be renamed, and a reader fetches an object in several requests. So an object is
// never overwritten with other content: its name contains its checksum. The manifest is the commit
// point. It is replaced once all objects that it names exist. An object that it no longer names is
// kept for an hour, for readers that have read the previous manifest. A listing therefore finds
// rows twice for that hour; readers take the names from the manifest.
//
// Each publication brings the copy up to date: missing objects are uploaded, then the manifest,
// then old objects are deleted. No other state is needed: an interrupted copy is completed by the
// next one, and objects that no manifest named are deleted. The folder stays authoritative. Objects
// missing from the bucket are uploaded again.
//
// A bucket belongs to one data folder. The manifest contains its owner's name and a commit counter,
// and is replaced only if it has not changed since it was read.
//
// [Files] stores other files in a bucket, such as backups.
package bucket
