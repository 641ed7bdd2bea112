package main

import "embed"

//go:embed help/*.txt
var helps embed.FS

// help is a text of the folder help.
func help(name string) string {
	raw, err := helps.ReadFile("help/" + name + ".txt")
	if err != nil {
		panic("waybill: " + err.Error())
	}
	return string(raw)
}
