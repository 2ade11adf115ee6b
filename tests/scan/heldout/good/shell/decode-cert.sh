#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
kubectl get secret web-tls -o jsonpath='{.data.tls\.crt}' | base64 -d | openssl x509 -noout -dates -subject
