//go:build iceberg

package job

const hasIceberg = true // the program can use Iceberg tables
