package main

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"

	served "github.com/google/go-containerregistry/pkg/registry"
	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/exit"
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
	checkacts.All(t, verdict.Consumer, checkacts.Each(command(t, "verify", "release"), command(t, "verify", "file"), command(t, "verify", "image"), command(t, "kit", "verify")))
	checkacts.Written(t, "../../pkg", checkacts.Tree(root()))
	checkacts.Written(t, ".", checkacts.Tree(root()))
}

// execute runs the program and returns all that it
// prints.
func execute(t *testing.T, args ...string) string {
	t.Helper()
	var said bytes.Buffer
	cmd := root()
	cmd.SetArgs(args)
	cmd.SetOut(&said)
	cmd.SetErr(&said)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if ran, err := cmd.ExecuteContextC(t.Context()); err != nil {
		exit.Report(&said, ran.CommandPath(), err)
	}
	return said.String()
}

// TestMissingTag: an image that the registry does not have is not a file to
// fetch again.
func TestMissingTag(t *testing.T) {
	srv := httptest.NewServer(served.New(served.Logger(log.New(io.Discard, "", 0))))
	defer srv.Close()
	reference := strings.TrimPrefix(srv.URL, "http://") + "/lantern:v9.9.9"
	said := execute(t, "verify", "image", reference, "--offline", "--certificate-identity", "a@example.test", "--certificate-oidc-issuer", "https://accounts.example.test")
	if !strings.Contains(said, "MISSING") || !strings.Contains(said, "→ check the spelling of the image, its tag or digest and the registry") {
		t.Error(said)
	}
}
