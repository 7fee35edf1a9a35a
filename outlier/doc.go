// Package outlier talks to the outlier search and video data service.
package outlier
