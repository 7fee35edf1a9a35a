// Package bucket copies the files of a Parquet sink to a bucket of a store that speaks S3, or to a
// container of Azure Blob Storage, which is a bucket here.
//
//	<table>/date=YYYY-MM-DD/part-<lo>-<hi>-<sum>.parquet   a file of the folder
//	<table>/current-<sum>.parquet                          the same; <sum> begins the SHA-256 of its content
//	_manifest/latest.json                                  the objects of each table at the last publication
//
// Nothing in a bucket can be renamed, and a reader fetches an object in several requests. So an
// object is never written over with other content: its name has its checksum. The manifest is the
// commit point. It is replaced once all objects that it names are there, and an object that it
// names no longer stays for an hour, for readers who began with the manifest before. A listing
// therefore finds rows twice for that hour; readers take the names from the manifest.
//
// The copy follows the folder at each publication: objects that are missing are uploaded, then the
// manifest, then old objects are deleted. Nothing has to be remembered between the two: a copy
// that was cut short anywhere is completed by the next one, and objects that no manifest named go.
// The folder stays the sink's own record. What the bucket has lost is uploaded again from it.
//
// A bucket belongs to one data folder. The manifest has the owner's name and counts its commits,
// and it is replaced only if it is still the one that was read.
//
// [Files] are other files in a bucket, such as those of backups.
package bucket
