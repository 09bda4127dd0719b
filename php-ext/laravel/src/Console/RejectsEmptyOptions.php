<?php

declare(strict_types=1);

namespace Pillion\Laravel\Console;

use Symfony\Component\Console\Exception\InvalidOptionException;
use Symfony\Component\Console\Input\InputInterface;
use Symfony\Component\Console\Output\OutputInterface;

/**
 * Rejects options with an empty value. Otherwise, `--user="$USER_ID"` with an unset variable would
 * run the command for a user with an empty name.
 */
trait RejectsEmptyOptions
{
    protected function initialize(InputInterface $input, OutputInterface $output): void
    {
        parent::initialize($input, $output);
        foreach ($input->getOptions() as $name => $value) {
            if ($value === '') {
                throw new InvalidOptionException("--$name must not be empty: omit the option to use its default");
            }
        }
    }
}
