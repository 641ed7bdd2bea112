package token

import (
	"context"
	"io"
	"os"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// fileAdvice is the advice for a file without a usable token.
const fileAdvice = "get a token, write it to a file that only you can read, and use --identity-token NAME=FILE"

// File is a file that contains a token. It is read each time, because the
// token may be rotated, as Kubernetes does with projected tokens.
type File string

// Token reads the file.
func (f File) Token(context.Context) (string, error) {
	open, err := os.Open(string(f))
	if err != nil {
		return "", verdict.Wrap(verdict.Usage, subject, err).Advise(fileAdvice)
	}
	defer open.Close()
	raw, err := io.ReadAll(io.LimitReader(open, maxToken+1))
	if err != nil {
		return "", verdict.Wrap(verdict.Usage, subject, err).Advise(fileAdvice)
	}
	if len(raw) > maxToken {
		return "", verdict.Refuse(verdict.Usage, subject, "%q has more than %d bytes, so it is not a token", string(f), maxToken).Advise(fileAdvice)
	}
	text := strings.TrimSpace(string(raw))
	if text == "" {
		return "", verdict.Refuse(verdict.Usage, subject, "%q is empty", string(f)).Advise(fileAdvice)
	}
	return text, nil
}

// String is the path.
func (f File) String() string { return "the file " + string(f) }

// variable is an environment variable that contains a token, as GitLab sets
// for a job that asks for it under id_tokens.
type variable struct {
	name string
	env  func(string) string
}

// Token reads the variable.
func (v variable) Token(context.Context) (string, error) {
	text := strings.TrimSpace(v.env(v.name))
	if text == "" {
		return "", verdict.Refuse(verdict.Usage, subject, "the variable %s is not set; let the job ask for a token under id_tokens, with the audience %q", v.name, audience)
	}
	return text, nil
}

// String names the variable.
func (v variable) String() string { return "the environment variable " + v.name }
