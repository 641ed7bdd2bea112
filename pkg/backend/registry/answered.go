package registry

import (
	"errors"
	"net/http"

	ggcr "github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// refusedError is an answer of a registry that no repetition changes, with the
// next act.
type refusedError struct {
	error
	act string
}

// Unwrap returns the answer.
func (e *refusedError) Unwrap() error { return e.error }

// NextAct is what to do about it; package verdict reads it.
func (e *refusedError) NextAct() string { return e.act }

// loginAct is what to do if a registry does not accept the credentials.
func loginAct(host string) string {
	return "log in to " + host + " with an account that may do this (docker login " + host + ", or the credential helper in the Docker configuration), and check the spelling of the repository; nothing was decided"
}

// advised adds the next act to an answer about which something can be done.
func advised(err error, host string) error {
	var answer *ggcr.Error
	if !errors.As(err, &answer) {
		return err
	}
	switch answer.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return &refusedError{err, loginAct(host)}
	case http.StatusRequestEntityTooLarge:
		return &refusedError{err, "ask the operators of " + host + " to allow larger requests, at least as large as the largest layer: in nginx, client_max_body_size 0 for /v2/; then run the command again, which continues"}
	case http.StatusMethodNotAllowed:
		return &refusedError{err, "ask the operators of " + host + " whether it is read-only at the moment, and run the command again when it is not"}
	}
	return err
}
