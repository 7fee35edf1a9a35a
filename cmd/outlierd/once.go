package main

import "strings"

const onceMark = "once:"

func isOnce(name string) bool { return strings.HasPrefix(name, onceMark) }
