// Package review asks the API server whose a bearer token is, and whether that user may make a
// request: a TokenReview and a SubjectAccessReview, as the kubelet asks them.
//
// Only tokens that are made for orphan-reaper are good: the TokenReview names Audience, and what
// is not for that audience is refused. So a node that was taken over, and is sent a token, can ask
// other nodes' daemons with it and nobody else.
//
// An answer is kept for a short while by a hash of the token; that it was allowed, for an hour, so that
// whom the API server knows is asked about apart from whom it does not. What cannot be found out is refused;
// it never lets anybody in. A token stands in no log and in no error.
package review
