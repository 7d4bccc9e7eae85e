"""What every other package may use: small files written durably. It imports nothing of the project but `errors`."""
