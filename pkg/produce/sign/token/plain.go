package token

import (
	"context"
	"io"
	"os"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// giveFile is what to do about a file that holds no token.
const giveFile = "fetch a token, write it to a file that only you can read, and name that: --identity-token NAME=FILE"

// File is a file that holds a token. It is read anew each time, so that
// whoever rotates it, as Kubernetes does with projected tokens, is followed.
type File string

// Token reads the file.
func (f File) Token(context.Context) (string, error) {
	open, err := os.Open(string(f))
	if err != nil {
		return "", verdict.Wrap(verdict.Usage, subject, err).Advise(giveFile)
	}
	defer open.Close()
	raw, err := io.ReadAll(io.LimitReader(open, maxToken+1))
	if err != nil {
		return "", verdict.Wrap(verdict.Usage, subject, err).Advise(giveFile)
	}
	if len(raw) > maxToken {
		return "", verdict.Refuse(verdict.Usage, subject, "%q has more than %d bytes; that is no token", string(f), maxToken).Advise(giveFile)
	}
	text := strings.TrimSpace(string(raw))
	if text == "" {
		return "", verdict.Refuse(verdict.Usage, subject, "%q is empty", string(f)).Advise(giveFile)
	}
	return text, nil
}

// String is the path.
func (f File) String() string { return "the file " + string(f) }

// variable is an environment variable that holds a token, as GitLab gives one
// to a job that asks for it under id_tokens.
type variable struct {
	name string
	env  func(string) string
}

// Token reads the variable.
func (v variable) Token(context.Context) (string, error) {
	text := strings.TrimSpace(v.env(v.name))
	if text == "" {
		return "", verdict.Refuse(verdict.Usage, subject, "the environment has no %s; have the job ask for one under id_tokens, with the audience %q", v.name, Audience)
	}
	return text, nil
}

// String names the variable.
func (v variable) String() string { return "the environment variable " + v.name }
