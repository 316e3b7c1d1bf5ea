# SPDX-License-Identifier: Apache-2.0
"""Prediction: the same schedules on a modelled fabric, by closed forms and by fluid flows."""
