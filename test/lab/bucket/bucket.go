// Package bucket is a bucket server.
package bucket

import "net/http"

// Server is temporary.
type Server struct{ http.Handler }

// New is temporary.
func New(dir string) (*Server, error) { return &Server{http.NotFoundHandler()}, nil }

// Make is temporary.
func (s *Server) Make(name string) error { return nil }
