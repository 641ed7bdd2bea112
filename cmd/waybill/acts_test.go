package main

import (
	"testing"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/pkg/testing/checkacts"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// command returns the command of a path.
func command(t *testing.T, path ...string) *cobra.Command {
	t.Helper()
	c, rest, err := root().Find(path)
	if err != nil || len(rest) > 0 {
		t.Fatalf("%v: %v, %v", path, rest, err)
	}
	return c
}

func TestActsCanBeDone(t *testing.T) {
	checkacts.All(t, verdict.Producer, checkacts.Tree(root()))
	checkacts.All(t, verdict.Consumer, checkacts.Each(command(t, "verify", "release"), command(t, "verify", "file"), command(t, "verify", "image")))
	checkacts.Written(t, "../../pkg", checkacts.Tree(root()))
	checkacts.Written(t, ".", checkacts.Tree(root()))
}
