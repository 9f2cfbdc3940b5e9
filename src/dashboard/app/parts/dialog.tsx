import { Modal } from '@mantine/core';
import { type ReactNode, useEffect } from 'react';

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ReactNode;
}

/** A modal dialog. A class on the body stops scrolling, because Mantine's scroll lock adds a style tag, which the Content-Security-Policy forbids. */
export function Dialog({ title, onClose, children }: DialogProps) {
  useEffect(() => {
    document.body.classList.add('has-dialog');
    return () => document.body.classList.remove('has-dialog');
  }, []);
  return (
    <Modal
      opened
      onClose={onClose}
      title={title}
      lockScroll={false}
      size="lg"
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      {children}
    </Modal>
  );
}
