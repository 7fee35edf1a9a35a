//go:build azure

package job

const hasAzure = true // the program can use buckets at az://
